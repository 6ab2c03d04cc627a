// The Python module: as thin as it can be. Shapes and types are checked by its front, in Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "exec/sizes.h"
#include "format/safetensors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Floats = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Outputs = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A path is bytes: names of files need not be texts.
nb::bytes read_file(const nb::bytes& path) {
  const std::string place(path.c_str(), path.size());
  std::vector<uint8_t> content;
  {
    const nb::gil_scoped_release unlocked;
    content = adaste::read_file(place);
  }
  return nb::bytes(content.data(), content.size());
}

void load(adaste::Networks* place, const nb::bytes& content, int threads, bool int8) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(content.c_str());
  const size_t size = content.size();
  const nb::gil_scoped_release unlocked;
  adaste::Options options;
  options.threads = threads;
  options.int8 = int8;
  new (place) adaste::Networks(bytes, size, options);
}

// What the network for the largest inputs says of itself.
template <auto member>
constexpr auto of_largest = [](const adaste::Networks& networks) { return (networks.largest().*member)(); };

nb::list nodes(const adaste::Networks& networks) {
  nb::list found;
  for (const adaste::NodeFacts& node : networks.largest().nodes()) {
    found.append(
        nb::make_tuple(node.op, node.output, nb::cast(node.shape.sides), node.weights, node.binary, node.kernel));
  }
  return found;
}

// The front allocates arrays of the right sizes; a wrong one must not reach memory that is not there.
template <class Array>
adaste::Images checked(const adaste::Network& network, const Array& images, const Outputs& outputs) {
  const adaste::Extent input = network.input();
  const auto size = [](int side) { return static_cast<size_t>(side); };
  constexpr bool floats = std::is_same_v<Array, Floats>;
  const size_t wanted[3] = {size(floats ? input.channels : input.height), size(floats ? input.height : input.width),
                            size(floats ? input.width : input.channels)};
  for (size_t i = 0; i < 3; ++i) adaste::require(images.shape(i + 1) == wanted[i], "the images have a wrong shape");
  adaste::require(outputs.shape(0) == images.shape(0) && outputs.shape(1) == size(network.outputs()),
                  "the outputs have a wrong shape");
  if constexpr (floats)
    return {images.data(), nullptr, static_cast<int64_t>(images.shape(0))};
  else
    return {nullptr, images.data(), static_cast<int64_t>(images.shape(0))};
}

template <class Array>
void run(adaste::Networks& networks, const Array& images, const Outputs& outputs) {
  const adaste::Images batch = checked(networks.largest(), images, outputs);
  const nb::gil_scoped_release unlocked;
  networks.largest().run(batch, outputs.data());
}

// Name, type, shape, mean and std of every input or output.
nb::list ports(const adaste::Network& network, const std::vector<adaste::Port>& all) {
  nb::list found;
  for (const adaste::Port& port : all) {
    const adaste::Value& value = network.value_of(port);
    found.append(nb::make_tuple(port.name, value.integer ? "int32" : "float32", nb::cast(value.shape.sides), port.mean,
                                port.std));
  }
  return found;
}

// The inputs and the outputs for inputs of these shapes, without the batch.
nb::tuple ports_for(adaste::Networks& networks, const std::vector<std::vector<int64_t>>& shapes) {
  adaste::require(shapes.size() == networks.largest().input_ports().size(), "a wrong number of shapes");
  std::shared_ptr<adaste::Network> network;
  {
    const nb::gil_scoped_release unlocked;  // a size that is new is planned first
    network = networks.at(shapes);
  }
  return nb::make_tuple(ports(*network, network->input_ports()), ports(*network, network->output_ports()));
}

using Anything = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<float, nb::c_contig, nb::device::cpu>;

// Does an array have the batch and then these sides?
template <class Array>
bool fits(const Array& array, size_t count, const std::vector<int>& sides) {
  bool same = array.ndim() == sides.size() + 1 && array.shape(0) == count;
  for (size_t axis = 0; same && axis < sides.size(); ++axis)
    same = array.shape(axis + 1) == static_cast<size_t>(sides[axis]);
  return same;
}

size_t batch_of(const std::vector<Anything>& inputs) {
  return inputs.empty() || inputs[0].ndim() == 0 ? 0 : inputs[0].shape(0);
}

// Inputs in the order of the ports; the front has made them fit.
std::vector<adaste::Feed> feeds_of(const adaste::Network& network, const std::vector<Anything>& inputs) {
  const auto& takes = network.input_ports();
  adaste::require(inputs.size() == takes.size(), "a wrong number of inputs");
  std::vector<adaste::Feed> feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const adaste::Value& value = network.value_of(takes[i]);
    const Anything& array = inputs[i];
    std::vector<int> sides = value.shape.sides;
    adaste::Feed feed{};
    if (value.integer && array.dtype() == nb::dtype<int32_t>())
      feed.integers = static_cast<const int32_t*>(array.data());
    else if (!value.integer && array.dtype() == nb::dtype<float>())
      feed.floats = static_cast<const float*>(array.data());
    else if (!value.integer && sides.size() == 3 && array.dtype() == nb::dtype<uint8_t>())
      feed.bytes = static_cast<const uint8_t*>(array.data()), sides = {sides[1], sides[2], sides[0]};
    else
      adaste::fail("input ", i, " has a wrong type");
    adaste::require(fits(array, batch_of(inputs), sides), "input ", i, " has a wrong shape");
    feeds.push_back(feed);
  }
  return feeds;
}

// The network for inputs of these shapes: it was planned when its ports were asked for.
std::shared_ptr<adaste::Network> network_for(adaste::Networks& networks,
                                             const std::vector<std::vector<int64_t>>& shapes) {
  adaste::require(shapes.size() == networks.largest().input_ports().size(), "a wrong number of shapes");
  return networks.at(shapes);
}

// Outputs are in the order of the ports, too.
void compute(adaste::Networks& networks, const std::vector<std::vector<int64_t>>& shapes,
             const std::vector<Anything>& inputs, const std::vector<Output>& outputs) {
  const std::shared_ptr<adaste::Network> network = network_for(networks, shapes);
  const std::vector<adaste::Feed> feeds = feeds_of(*network, inputs);
  const auto& gives = network->output_ports();
  adaste::require(outputs.size() == gives.size(), "a wrong number of outputs");
  const size_t count = batch_of(inputs);
  std::vector<float*> targets;
  for (size_t i = 0; i < outputs.size(); ++i) {
    adaste::require(fits(outputs[i], count, network->value_of(gives[i]).shape.sides), "output ", i,
                    " has a wrong shape");
    targets.push_back(outputs[i].data());
  }
  const nb::gil_scoped_release unlocked;
  network->run(feeds.data(), static_cast<int64_t>(count), targets.data());
}

void calibrate(adaste::Networks& networks, const std::vector<std::vector<int64_t>>& shapes,
               const std::vector<Anything>& inputs) {
  const std::shared_ptr<adaste::Network> network = network_for(networks, shapes);
  const std::vector<adaste::Feed> feeds = feeds_of(*network, inputs);
  const nb::gil_scoped_release unlocked;
  network->calibrate(feeds.data(), static_cast<int64_t>(batch_of(inputs)));
}

}  // namespace

NB_MODULE(_runtime, module) {
  // A network that a global variable holds when Python ends is no leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& pointer, void* /*context*/) {
    try {
      std::rethrow_exception(pointer);
    } catch (const adaste::Error& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });
  module.def("read_file", &read_file, "path"_a);
  nb::class_<adaste::Networks>(module, "Network")
      .def("__init__", &load, "content"_a, "threads"_a, "int8"_a)
      .def_prop_rw("ranges", of_largest<&adaste::Network::ranges>,
                   [](adaste::Networks& networks, const std::vector<std::pair<float, float>>& ranges) {
                     networks.largest().set_ranges(ranges);
                   })
      .def_prop_ro("input_shape",
                   [](const adaste::Networks& networks) {
                     const adaste::Extent input = networks.largest().input();
                     return nb::make_tuple(input.channels, input.height, input.width);
                   })
      .def_prop_ro("outputs", of_largest<&adaste::Network::outputs>)
      .def_prop_ro("free_sizes",
                   [](const adaste::Networks& networks) {
                     nb::list found;
                     for (size_t i = 0; i < networks.free().names.size(); ++i)
                       found.append(nb::make_tuple(networks.free().names[i], networks.free().most[i]));
                     return found;
                   })
      .def("ports_for", &ports_for, "shapes"_a)
      .def_prop_ro("input_ports",
                   [](const adaste::Networks& networks) {
                     return ports(networks.largest(), networks.largest().input_ports());
                   })
      .def_prop_ro("output_ports",
                   [](const adaste::Networks& networks) {
                     return ports(networks.largest(), networks.largest().output_ports());
                   })
      .def("compute", &compute, "shapes"_a, "inputs"_a.noconvert(), "outputs"_a.noconvert())
      .def_prop_ro("classes", of_largest<&adaste::Network::classes>)
      .def_prop_ro("mean", of_largest<&adaste::Network::mean>)
      .def_prop_ro("std", of_largest<&adaste::Network::std>)
      .def_prop_ro("recipe", of_largest<&adaste::Network::recipe>)
      .def_prop_ro("producer", of_largest<&adaste::Network::producer>)
      .def_prop_ro("nodes", &nodes)
      .def_prop_ro("kernels", of_largest<&adaste::Network::kernels>)
      .def_prop_ro("threads", of_largest<&adaste::Network::threads>)
      .def_prop_ro("memory_bytes", &adaste::Networks::memory_bytes)
      .def("run", &run<Floats>, "images"_a.noconvert(), "outputs"_a.noconvert())
      .def("run", &run<Bytes>, "images"_a.noconvert(), "outputs"_a.noconvert())
      .def("calibrate", &calibrate, "shapes"_a, "inputs"_a.noconvert());
}
